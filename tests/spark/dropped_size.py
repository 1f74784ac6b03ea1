"""A table whose column `size` is dropped and added again, and its events before, between and
since."""

from __future__ import annotations

from tests.spark.connect import INT, TEXT
from tests.spark.renamed import ddl
from tests.spark.typed import event

DROP = ddl(10, "ALTER TABLE `orders` DROP COLUMN `size`")
ADD = ddl(20, "ALTER TABLE orders ADD size varchar(9) AFTER id")
FIRST = [event("c", n, n, size=(INT, n * 10)) for n in (1, 2, 3)]
BETWEEN = [event("u", 12, 3)]
SINCE = [event("u", 21, 2, size=(TEXT, "L")), event("c", 22, 4, size=(TEXT, "XL"))]
