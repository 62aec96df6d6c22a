"""An intake as it is usually written: DRF, a ModelSerializer, the ORM and django-simple-history. Only for comparison."""
