package storetest

var txTests = tests{}
