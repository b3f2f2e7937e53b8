"""Past outputs by owner, program and slot: the store, its file, and the drafter that searches it."""
