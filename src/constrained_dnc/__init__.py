"""Differentiable neural computers with constrained controller states."""
