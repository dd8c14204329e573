// Package argv puts a command line into the order that urfave/cli v2 needs.
//
// That library stops looking for flags at the first word that is none, so
// "history kube1 -n 5" would run with the default of -n and two surplus
// arguments; it knows an application's flags only in front of the command; and
// it takes "history kube1 --help" for a question about a topic. People type
// flags where they think of them. Normalize moves them:
//
//   - flags go in front of the arguments of their command, flags of the
//     application or of a group of commands in front of that command;
//   - -h or --help anywhere makes the line "COMMAND --help";
//   - -rf is split into -r -f, -n5 and "-n 5" become -n=5, so that a value may
//     begin with a dash ("--since -1h");
//   - a flag without its value is an error, rather than taking the next flag
//     or argument for the value;
//   - a flag whose value is optional takes the next word only if it can be its
//     value ("-b kube1");
//   - two names of one flag become one, since the library refuses both;
//   - "--" ends flags, and stays;
//   - a request for shell completion is left alone; after "--", where the
//     library would run the command instead, it is an error.
//
// What is unknown is not judged here: an unknown flag stays where the library
// finds and refuses it, an unknown command keeps its words. Nothing is lost
// except around --help.
//
// The description of commands and flags is plain data, so that the library is
// known to nobody but the command line itself. Everything here is a pure
// function and safe for concurrent use.
package argv
