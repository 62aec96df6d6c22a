"""The action log is never changed or emptied, whoever asks (AUD-3)."""

from django.db import migrations

APPEND_ONLY = """
CREATE TRIGGER append_only_rows BEFORE UPDATE OR DELETE ON ops_console_operatoraction
    FOR EACH ROW EXECUTE FUNCTION countinghouse_append_only();
CREATE TRIGGER append_only_table BEFORE TRUNCATE ON ops_console_operatoraction
    FOR EACH STATEMENT EXECUTE FUNCTION countinghouse_append_only();
"""
REVERSE = """
DROP TRIGGER append_only_rows ON ops_console_operatoraction;
DROP TRIGGER append_only_table ON ops_console_operatoraction;
"""


class Migration(migrations.Migration):
    dependencies = [("ops_console", "0001_initial"), ("payments", "0002_rules")]

    operations = [migrations.RunSQL(APPEND_ONLY, REVERSE)]
