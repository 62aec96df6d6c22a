from django.urls import path
from django.views.generic import RedirectView

app_name = "ops_console"
urlpatterns = [path("find", RedirectView.as_view(url="/"), name="find")]
