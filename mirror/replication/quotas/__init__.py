"""What slows lanes down on purpose: when they ask for more, and which quota holds them back."""
