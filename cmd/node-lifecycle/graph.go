package main

import (
	"github.com/urfave/cli/v2"

	"github.com/node-lifecycle/node-lifecycle/fsm"
	"github.com/node-lifecycle/node-lifecycle/journal"
	"github.com/node-lifecycle/node-lifecycle/phases"
)

func (e *environment) graphCommand() *cli.Command {
	return e.command(&cli.Command{
		Name: "graph", ArgsUsage: "[SLOT]", Category: "inspect",
		Usage: "the state machine as a diagram, with a slot's own way in it",
		Flags: []cli.Flag{
			outputFlag("mermaid", "mermaid or dot", graphFormats...),
			&cli.BoolFlag{Name: "resume", Usage: "print what resume does about every state, instead"},
		},
		Action: func(c *cli.Context) error {
			if c.Bool("resume") {
				if c.NArg() > 0 {
					return usagef("graph --resume takes no slot: its table is the same for all")
				}
				return phases.WriteResumeTable(e.stdout)
			}
			write := fsm.WriteMermaid
			switch c.String("output") {
			case "mermaid":
			case "dot":
				write = fsm.WriteDOT
			default:
				return unknownFormat(c, graphFormats)
			}
			options := fsm.GraphOptions{}
			if c.NArg() > 0 {
				s, err := e.inspectedSlot(c)
				if err != nil {
					return err
				}
				if options, err = e.wayOf(c, s); err != nil {
					return err
				}
			}
			return write(e.stdout, options)
		},
	})
}

var graphFormats = []string{"mermaid", "dot"}

// wayOf is the state of the slot and the transitions of its last activation.
func (e *environment) wayOf(c *cli.Context, s slotOf) (fsm.GraphOptions, error) {
	h, err := e.readHistory(c.Context, s, historyFilter{notes: true})
	if err != nil {
		return fsm.GraphOptions{}, err
	}
	options := fsm.GraphOptions{Current: fsm.Stopped}
	activation := ""
	for i := range h.entries {
		entry := &h.entries[i]
		if entry.Kind != journal.KindTransition {
			continue
		}
		if entry.Activation != activation {
			activation, options.Path = entry.Activation, nil
		}
		options.Current = fsm.State(entry.To)
		options.Path = append(options.Path, fsm.Transition{
			From: fsm.State(entry.From), Event: fsm.Event(entry.Event), To: fsm.State(entry.To),
		})
	}
	return options, nil
}
