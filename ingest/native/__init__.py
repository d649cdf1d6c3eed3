"""Native interfaces read from wheels, images and this machine."""
