"""What all tests share."""

from hypothesis import settings

# A busy machine is no defect of what is tested.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
