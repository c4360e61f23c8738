CREATE DATABASE shop;
CREATE TABLE shop.customer (
  id BIGINT AUTO_INCREMENT PRIMARY KEY,
  name VARCHAR(80) NOT NULL,
  city VARCHAR(80),
  since DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP
);
INSERT INTO shop.customer (name, city) VALUES ('Grace', 'New York'), ('Alan', 'London');
