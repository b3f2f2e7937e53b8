-- The database of text_to_sql.py: a small lending library.
CREATE TABLE books (id INTEGER PRIMARY KEY, title TEXT, author TEXT, year INTEGER, pages INTEGER);
CREATE TABLE readers (id INTEGER PRIMARY KEY, name TEXT, city TEXT, joined INTEGER);
CREATE TABLE loans (book_id INTEGER REFERENCES books, reader_id INTEGER REFERENCES readers, days INTEGER);

INSERT INTO books VALUES
  (1, 'Dracula', 'Stoker', 1897, 418),
  (2, 'Emma', 'Austen', 1815, 474),
  (3, 'Persuasion', 'Austen', 1817, 249),
  (4, 'Walden', 'Thoreau', 1854, 352),
  (5, 'Kim', 'Kipling', 1901, 368),
  (6, 'Middlemarch', 'Eliot', 1871, 880),
  (7, 'Silas Marner', 'Eliot', 1861, 262),
  (8, 'The Jungle Book', 'Kipling', 1894, 277);

INSERT INTO readers VALUES
  (1, 'Ada', 'Lisbon', 2019),
  (2, 'Bruno', 'Graz', 2021),
  (3, 'Carla', 'Lisbon', 2022),
  (4, 'Dmitri', 'Riga', 2018),
  (5, 'Edith', 'Graz', 2023);

INSERT INTO loans VALUES (1, 2, 14), (2, 1, 21), (6, 1, 60), (4, 3, 7), (5, 4, 30), (8, 5, 10), (3, 5, 12);
