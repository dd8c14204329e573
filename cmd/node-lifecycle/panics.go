//go:build panics

package main

import "time"

// panicOnRequest breaks the process on purpose, for the scenarios that show what a unit
// sees of a command that breaks. It is compiled into no release.
func (e *environment) panicOnRequest() {
	switch e.getenv("TEST_PANIC") {
	case "main":
		panic("asked for")
	case "goroutine":
		go panic("asked for")
		time.Sleep(time.Minute)
	}
}
