"""What outputs of a slot have in common: learned from outputs and examples, or declared, and followed in a new one."""
