from django.urls import path

from .views import PaymentsView

urlpatterns = [path("payments", PaymentsView.as_view())]
