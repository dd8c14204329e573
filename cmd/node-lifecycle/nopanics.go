//go:build !panics

package main

func (e *environment) panicOnRequest() {}
