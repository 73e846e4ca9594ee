package storetest

var schemaTests = tests{}
