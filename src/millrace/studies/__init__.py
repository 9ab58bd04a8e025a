"""Published figures of studies as data, a file each, and how one is looked up."""
