package storetest

var lockTests = tests{}
