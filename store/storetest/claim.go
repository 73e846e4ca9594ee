package storetest

var claimTests = tests{}
