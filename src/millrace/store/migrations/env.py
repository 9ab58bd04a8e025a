"""Run the migrations on the connection of ``upgrade``; Alembic's entry point."""

from alembic import context

from millrace.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
