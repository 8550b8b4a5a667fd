"""Digital inference: a trained model with hard writes and a finite number of states."""
