"""Run servers: their lifecycle, ownership, confinement and directories."""
