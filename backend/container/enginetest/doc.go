// Package enginetest is a container engine for tests: it speaks the slice of
// the Docker API that node-lifecycle uses, on a unix socket, and runs no
// container at all. What a container does is a Go function, so a test decides
// when it prints, how it takes signals and how it ends:
//
//	e := enginetest.New(t, enginetest.Docker)
//	e.AddImage(enginetest.Image{
//		Name: "localhost/node:1",
//		Program: func(p *enginetest.Process) int {
//			p.Println("booting")
//			<-p.Signals()
//			return 130
//		},
//	})
//	// e.Socket() is where the code under test finds the engine.
//
// The two flavours answer as the two engines do, as far as they were found to
// differ: Podman uses status 500 where Docker uses 409, refuses to stop a
// paused container, and tells time in whole seconds.
//
// Everything that goes wrong with an engine can be brought about: On makes a
// request fail, hang, or break off before, after or long before the engine
// does what it was asked to; Restart breaks every connection while containers
// live on; Stop and Resume take the engine away for a while; Change puts a
// container into any state.
//
// An Engine is safe for concurrent use.
package enginetest
