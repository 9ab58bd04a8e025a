"""Execute trials: prepare servers, measure them under load, verify and clean up.

``execute`` runs one trial and ``round`` a group of trials whose servers take turns; both execute
the steps that ``managed_server`` or ``external_server`` declares. ``measure`` runs the measured
phases, and all that surrounds them is a hook (``hooks``), each in one place.

Which trials there are and in which order belongs to ``millrace.experiment`` and
``millrace.campaign``. Statistics of results belong to ``millrace.stats``.
"""
