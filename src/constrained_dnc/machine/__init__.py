"""The finite-state machine inside a trained model: extraction, fidelity, drawings."""
