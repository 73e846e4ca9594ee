package storetest

var batchTests = tests{}
