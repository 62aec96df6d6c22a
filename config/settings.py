"""Settings, driven by the environment: see docs/architecture.md for the list.

`COUNTINGHOUSE_ENV` is `demo` (loopback only, known keys), `test` or `production`; in production each secret must be given.
"""

from datetime import timedelta
from pathlib import Path

import environ
import structlog
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _

from . import embedded

BASE_DIR = Path(__file__).resolve().parent.parent
env = environ.Env()

ENVIRONMENT = env.str("COUNTINGHOUSE_ENV", default="demo")
if ENVIRONMENT not in ("demo", "test", "production"):
    raise ImproperlyConfigured(f"COUNTINGHOUSE_ENV is demo, test or production, not {ENVIRONMENT!r}.")
PRODUCTION = ENVIRONMENT == "production"
DEBUG = env.bool("DEBUG", default=False)

if PRODUCTION:
    needed = ["SECRET_KEY", "ALLOWED_HOSTS", "DATABASE_URL", "COUNTINGHOUSE_BASE_URL"]
    if not (env.str("BROKER_URL", default="") and env.str("CACHE_URL", default="")):
        needed.append("REDIS_URL")
    if missing := [name for name in needed if not env.str(name, default="")]:
        raise ImproperlyConfigured(f"In production these must be set: {', '.join(missing)}.")
SECRET_KEY = env.str("SECRET_KEY", default="demo-only-" + "k" * 48)
ALLOWED_HOSTS = env.list(
    "ALLOWED_HOSTS", default=[] if PRODUCTION else ["127.0.0.1", "localhost", "[::1]", "testserver"]
)
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "simple_history",
    "template_partials",
    "django_htmx",
    "payments.apps.PaymentsConfig",
    "settlement.apps.SettlementConfig",
    "reconciliation.apps.ReconciliationConfig",
    "ops_console.apps.OpsConsoleConfig",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "config.middleware.SecurityHeaders",
    "config.middleware.StaticFiles",
    "config.middleware.Sessions",
    "config.middleware.Language",
    "django.middleware.common.CommonMiddleware",
    "config.middleware.PlainPaths",
    "config.middleware.DatabaseAway",
    "django.middleware.csrf.CsrfViewMiddleware",
    "config.middleware.Users",
    "config.middleware.Messages",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "config.middleware.Htmx",
]

ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
APPEND_SLASH = False

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.i18n",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "ops_console.context.shell",
            ],
        },
    }
]

# One SQL dialect everywhere. Without DATABASE_URL the embedded server under var/ is used.
DATABASES = {"default": env.db_url("DATABASE_URL", default=embedded.database_url())}
DATABASES["default"] |= {
    "ENGINE": "config.database",
    "CONN_MAX_AGE": 0,  # given back after each request and task; the backend keeps it for the next one
    "OPTIONS": {
        # A prepared statement is planned once: what is prepared finds its rows by unique keys, whatever its parameters.
        "options": "-c statement_timeout=10000 -c lock_timeout=2000 -c idle_in_transaction_session_timeout=30000"
        " -c plan_cache_mode=force_generic_plan",
        "application_name": "countinghouse",
        # For the few statements of payments.prepared; 0 where a pooler forbids prepared statements (PgBouncer < 1.21).
        "prepare_threshold": env.int("DATABASE_PREPARE_THRESHOLD", default=1) or None,
        **DATABASES["default"].get("OPTIONS", {}),  # such as ?sslmode=verify-full of DATABASE_URL
    },
}
# Idle connections a process keeps.
DATABASE_KEEP_IDLE = env.int("DATABASE_KEEP_IDLE", default=24)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

_redis = embedded.redis_urls()
BROKER_URL = env.str("BROKER_URL", default=env.str("REDIS_URL", default=_redis.broker))
CACHE_URL = env.str("CACHE_URL", default=env.str("REDIS_URL", default=_redis.cache))
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": CACHE_URL,
        "OPTIONS": {"socket_connect_timeout": 0.5, "socket_timeout": 0.5},
    }
}

# Sessions live in the database: losing the cache logs nobody out.
SESSION_ENGINE = "django.contrib.sessions.backends.db"
SESSION_COOKIE_AGE = env.int("SESSION_SECONDS", default=int(timedelta(hours=10).total_seconds()))
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PRODUCTION
SESSION_COOKIE_HTTPONLY = True
LOGIN_URL = "ops_console:login"
LOGIN_REDIRECT_URL = "ops_console:find"
LOGOUT_REDIRECT_URL = "ops_console:login"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]

SECURE_SSL_REDIRECT = env.bool("SECURE_SSL_REDIRECT", default=PRODUCTION)
SECURE_REDIRECT_EXEMPT = [r"^healthz$"]
SECURE_HSTS_SECONDS = env.int("SECURE_HSTS_SECONDS", default=31536000 if PRODUCTION else 0)
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = PRODUCTION
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if env.bool("BEHIND_TLS_PROXY", default=False) else None
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("zh-hans", _("Chinese"))]
LOCALE_PATHS = [BASE_DIR / "locale"]
LANGUAGE_COOKIE_NAME = "language"
USE_I18N = True
USE_TZ = True
TIME_ZONE = "UTC"
DISPLAY_TIME_ZONE = env.str("DISPLAY_TIME_ZONE", default="Asia/Shanghai")

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = env.str("STATIC_ROOT", default=str(embedded.var_dir() / "static"))
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

# The state log is read by the row it is about, never by date alone.
SIMPLE_HISTORY_DATE_INDEX = False

# A page without its collected assets is plain, not broken.
WHITENOISE_MANIFEST_STRICT = False

# A request body is bounded here and, for the API, again by its parser.
DATA_UPLOAD_MAX_MEMORY_SIZE = 256 * 1024

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["payments.api.authentication.ApiKeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["payments.api.permissions.HasScope"],
    "DEFAULT_PARSER_CLASSES": ["payments.api.parsing.StrictJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["payments.api.parsing.ApiRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "payments.api.parsing.AlwaysJSON",
    "DEFAULT_THROTTLE_CLASSES": ["payments.api.throttling.ClientRate"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "payments.api.problems.problem_response",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Countinghouse API",
    "VERSION": "1.0.0",
    "OAS_VERSION": "3.1.0",
    "DESCRIPTION": "Take a payment and never guess. No answer from the bank is *unknown*, never *failed*.",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_AUTHENTICATION": [],
    "SERVE_PERMISSIONS": [],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_SETTINGS": {"validatorUrl": ""},  # no request to anybody else
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "REDOC_DIST": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "POSTPROCESSING_HOOKS": ["payments.api.schema.add_components"],
}
API_MAX_WAITERS = env.int("API_MAX_WAITERS", default=64)
API_RATE_PER_MINUTE = env.int("API_RATE_PER_MINUTE", default=120000)

# Secrets of channels come from the environment; a channel row only names the variable. The demo's keys are public.
CHANNEL_SECRETS = {} if PRODUCTION else {"BANK_KEY_DEMO_1": "sandbox-demo-secret"}
BASE_URL = env.str("COUNTINGHOUSE_BASE_URL", default="http://127.0.0.1:8000")

structlog.configure(
    processors=[
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
    ],
    logger_factory=structlog.stdlib.LoggerFactory(),
    cache_logger_on_first_use=True,
)
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "json": {
            "()": structlog.stdlib.ProcessorFormatter,
            "processors": [
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(ensure_ascii=False, default=str),
            ],
            "foreign_pre_chain": [
                structlog.contextvars.merge_contextvars,
                structlog.stdlib.add_log_level,
                structlog.stdlib.ExtraAdder(),
                structlog.processors.TimeStamper(fmt="iso", utc=True),
            ],
        }
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"handlers": ["console"], "level": env.str("LOG_LEVEL", default="INFO")},
    "loggers": {
        "django.request": {"level": "ERROR"},
        "celery.worker.strategy": {"level": "WARNING"},
        "celery.app.trace": {"level": "WARNING"},
    },
}
SILENCED_SYSTEM_CHECKS: list[str] = []
