"""SessionCatalog: the catalog of a Spark session, a Hive metastore or what the session has instead.

Entries are what ``CREATE TABLE ... USING delta LOCATION`` stores: the provider, the location and no
columns. Delta reads the columns and their comments from the table's log. They are written by
Spark's own client of the catalog, because the statement needs Delta in the session, checks the
table's log, and can't mark an entry: Delta's properties are the table's, not the entry's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import CatalogError
from ..runtime.retry import first_line
from ..runtime.spark_session import java_session
from .entry import CatalogEntry, CatalogView, EntryName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OWN = "spark_repl."
"""start of the names of the properties that mark our entries"""
_AT_ONCE = 200
"""names of one request"""


NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})


class CatalogClient(Protocol):
    """A catalog. Each method raises CatalogError if the catalog does not answer, or refuses."""

    def schemas(self) -> list[str]:
        """Return all schemas."""
        ...

    def entries(self, schema: str, tables: Sequence[str] | None = None) -> list[CatalogEntry]:
        """Return the entries of a schema; those among ``tables`` if given. Return none of a schema
        that does not exist."""
        ...

    def create_schema(self, schema: str, properties: Mapping[str, str] = NO_PROPERTIES) -> None:
        """Create a schema unless it exists."""
        ...

    def schema_properties(self, schema: str) -> dict[str, str] | None:
        """Return the properties of a schema that mark it as ours; None: there is no such schema."""
        ...

    def set_schema_properties(self, schema: str, properties: Mapping[str, str]) -> None:
        """Add properties to a schema."""
        ...

    def drop_schema(self, schema: str) -> None:
        """Drop a schema without entries, if it exists."""
        ...

    def create(self, entry: CatalogEntry) -> None:
        """Create an entry in an existing schema."""
        ...

    def replace(self, entry: CatalogEntry) -> None:
        """Give an existing entry another location and other properties."""
        ...

    def drop(self, name: EntryName) -> None:
        """Drop an entry if it exists. The table's files stay."""
        ...


def drop_own(
    catalog: CatalogClient, name: EntryName, is_own: Callable[[CatalogEntry], bool]
) -> None:
    """Drop an entry if it is still there and ours: another writer may have replaced it since it was
    read. Raise CatalogError."""
    entries = catalog.entries(name.schema, [name.table])
    if any(entry.name == name and is_own(entry) for entry in entries):
        catalog.drop(name)


class SessionCatalog:
    """The catalog of a session, as ``CatalogClient``. ``spark`` is the session, for statements."""

    def __init__(self, spark: SparkSession) -> None:
        """Raise CatalogError for a session of Spark Connect, which has no such client."""
        self.spark = spark
        if (java := java_session(spark)) is None:
            raise CatalogError(
                "a session of Spark Connect can't register tables",
                hint="run the applier with a master of its own, or leave out [catalog]",
            )
        self._java, self._session = java

    @property
    def is_shared(self) -> bool:
        """Return whether other sessions see the catalog. Spark's in-memory one ends with its
        session."""
        return self.spark.conf.get("spark.sql.catalogImplementation") != "in-memory"

    def schemas(self) -> list[str]:
        with _answers("list schemas"):
            return _items(self._client.listDatabases())

    def entries(self, schema: str, tables: Sequence[str] | None = None) -> list[CatalogEntry]:
        with _answers(f"read schema {schema}"):
            if not self._client.databaseExists(schema):
                return []
            if tables is None:
                tables = _items(self._client.listTables(schema))
            read = list[Any]()
            for begin in range(0, len(tables), _AT_ONCE):
                names = self._seq(tables[begin : begin + _AT_ONCE])
                read += _items(self._client.getTablesByName(schema, names))
            return [self._entry(schema, table) for table in read]

    def create_schema(self, schema: str, properties: Mapping[str, str] = NO_PROPERTIES) -> None:
        with _answers(f"create schema {schema}"):
            if self._client.databaseExists(schema):
                return
            # The metastore's own folder of managed tables, as CREATE SCHEMA on it would have.
            base = self._client.getDatabase("default").locationUri().toString()
            location = self._classes.catalog.CatalogUtils.stringToURI(f"{base}/{schema}.db")
            marks = self._map(properties)
            database = self._classes.catalog.CatalogDatabase(schema, "", location, marks)
            self._client.createDatabase(database, True)

    def schema_properties(self, schema: str) -> dict[str, str] | None:
        with _answers(f"read schema {schema}"):
            if not self._client.databaseExists(schema):
                return None
            return _own(self._client.getDatabase(schema).properties())

    def set_schema_properties(self, schema: str, properties: Mapping[str, str]) -> None:
        with _answers(f"mark schema {schema}"):
            database = self._client.getDatabase(schema)
            marks = database.properties().concat(self._map(properties))
            fields = (database.name(), database.description(), database.locationUri(), marks)
            self._client.alterDatabase(self._classes.catalog.CatalogDatabase(*fields))

    def drop_schema(self, schema: str) -> None:
        with _answers(f"drop schema {schema}"):
            self._client.dropDatabase(schema, True, False)

    def create(self, entry: CatalogEntry) -> None:
        with _answers(f"register {entry.name}"):
            self._client.createTable(self._table(entry), False)

    def replace(self, entry: CatalogEntry) -> None:
        with _answers(f"register {entry.name}"):
            self._client.alterTable(self._table(entry))

    def drop(self, name: EntryName) -> None:
        with _answers(f"drop {name}"):
            self._client.dropTable(name.schema, name.table, True, False)

    @property
    def _client(self) -> Any:
        """Return Spark's client; the first call connects to the metastore."""
        return self._session.sharedState().externalCatalog()

    @property
    def _classes(self) -> Any:
        return self._java.org.apache.spark.sql.catalyst

    def _table(self, entry: CatalogEntry) -> Any:
        """Return Spark's definition of the entry. Its fields differ between releases of Spark: the
        first ones are the same, the others have their defaults."""
        catalog, name = self._classes.catalog, entry.name
        option = self._java.scala.Option
        companion = getattr(catalog, "CatalogStorageFormat$").__getattr__("MODULE$")
        storage = companion.empty()
        if entry.location:
            uri = catalog.CatalogUtils.stringToURI(entry.location)
            fields = [storage.productElement(i) for i in range(storage.productArity())]
            storage = companion.apply(option.apply(uri), *fields[1:])
        kinds = getattr(catalog, "CatalogTableType$").__getattr__("MODULE$")
        given = {
            0: self._classes.TableIdentifier(name.table, option.apply(name.schema)),
            1: kinds.EXTERNAL(),
            2: storage,
            3: self._java.org.apache.spark.sql.types.StructType(),
            4: option.apply(entry.provider),
            _PROPERTIES: self._map(entry.properties),
        }
        if entry.view is not None:
            columns = self._java.org.apache.spark.sql.types.DataType.fromJson(entry.view.schema)
            properties = {**entry.properties, **_of_view([*columns.fieldNames()])}
            given |= {1: kinds.VIEW(), 3: columns, 4: option.empty()}
            given |= {_PROPERTIES: self._map(properties), _TEXT: option.apply(entry.view.text)}
        companion = getattr(catalog, "CatalogTable$").__getattr__("MODULE$")
        methods = companion.getClass().getMethods()
        arity = next(m.getParameterCount() for m in methods if m.getName() == "apply")
        arguments = [
            given[i] if i in given else getattr(companion, f"apply$default${i + 1}")()
            for i in range(arity)
        ]
        return companion.apply(*arguments)

    def _entry(self, schema: str, table: Any) -> CatalogEntry:
        """Return Spark's definition of an entry as ours."""
        location, provider = table.storage().locationUri(), table.provider()
        text = table.viewText()
        to_text = self._classes.catalog.CatalogUtils.URIToString
        return CatalogEntry(
            EntryName(schema, table.identifier().table()),
            to_text(location.get()) if location.isDefined() else "",
            provider.get().lower() if provider.isDefined() else "",
            _own(table.properties()),
            CatalogView(text.get(), table.schema().json()) if text.isDefined() else None,
        )

    def _map(self, values: Mapping[str, str]) -> Any:
        return self._java.PythonUtils.toScalaMap(dict(values))

    def _seq(self, values: Iterable[str]) -> Any:
        return self._java.PythonUtils.toSeq(list(values))


_PROPERTIES, _TEXT = 11, 13
"""numbers of the fields ``properties`` and ``viewText`` of Spark's CatalogTable"""


def _of_view(columns: Sequence[str]) -> dict[str, str]:
    """Return the properties that CREATE VIEW gives a view."""
    numbered = {f"view.query.out.col.{i}": name for i, name in enumerate(columns)}
    return numbered | {
        "view.query.out.numCols": str(len(columns)),
        "view.catalogAndNamespace.numParts": "2",
        "view.catalogAndNamespace.part.0": "spark_catalog",
        "view.catalogAndNamespace.part.1": "default",
    }


def _own(properties: Any) -> dict[str, str]:
    """Return those of a Scala map that are marks of ours."""
    own, names = dict[str, str](), properties.keysIterator()
    while names.hasNext():
        if (name := names.next()).startswith(_OWN):
            own[name] = properties.apply(name)
    return own


def _items(sequence: Any) -> list[Any]:
    """Return the items of a Scala sequence."""
    return [sequence.apply(i) for i in range(sequence.size())]


@contextmanager
def _answers(action: str) -> Iterator[None]:
    """Raise CatalogError if Spark or its catalog raises."""
    try:
        yield
    except CatalogError:
        raise
    except Exception as error:  # Py4J's and Spark's classes, also of a JVM that ends
        raise CatalogError(f"the catalog could not {action}: {first_line(error)}") from error
