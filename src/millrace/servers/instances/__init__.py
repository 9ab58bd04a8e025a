"""Running servers: their lifecycle, ownership, confinement and directories."""
