package storetest

var settleTests = tests{}
