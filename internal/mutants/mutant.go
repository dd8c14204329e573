package main

import (
	"errors"
	"fmt"

	"github.com/node-lifecycle/node-lifecycle/internal/mutants/overlay"
)

// mutant is one mistake and the tests that must notice it.
type mutant struct {
	// Name is what people call it, in words joined by dashes.
	Name string
	// Edits make the mistake.
	Edits []overlay.Edit
	// Pkg is the folder of the tests, Run the pattern of those that must turn red; "":
	// all of them.
	Pkg, Run string
	// Breaks says in one line what would go wrong in the world.
	Breaks string
	// Cheap says that every CI run can afford it.
	Cheap bool
}

// tables are all mutants there are.
var tables = [][]mutant{
	fsmMutants, journalMutants, filelockMutants,
	claimMutants, stepMutants, startMutants, stopMutants, reconcileMutants, resumeMutants,
	argvMutants, configMutants, cmdMutants, sightMutants, unitMutants, configUnitMutants,
}

// edit is a single edit, which most mutants are.
func edit(file, old, new string) []overlay.Edit {
	return []overlay.Edit{{File: file, Old: old, New: new}}
}

// checkTable finds the mistakes in a table that need no compiler.
func checkTable(root string, mutants []mutant) error {
	var faults []error
	seen := make(map[string]bool)
	for _, m := range mutants {
		switch {
		case m.Name == "" || m.Breaks == "" || m.Pkg == "" || len(m.Edits) == 0:
			faults = append(faults, fmt.Errorf("mutant %q: it needs a name, edits, a package and what it breaks", m.Name))
			continue
		case seen[m.Name]:
			faults = append(faults, fmt.Errorf("mutant %s: there are two of that name", m.Name))
		}
		seen[m.Name] = true
		if err := overlay.Check(root, m.Edits); err != nil {
			faults = append(faults, fmt.Errorf("mutant %s: %w", m.Name, err))
		}
	}
	return errors.Join(faults...)
}
