"""Many runs side by side: a study."""
