package main

const (
	journalFile   = "journal/journal.go"
	openFile      = "journal/open.go"
	frameFile     = "journal/frame.go"
	txFile        = "journal/tx.go"
	ringFile      = "journal/ring.go"
	verifyFile    = "journal/verify.go"
	createFile    = "journal/create.go"
	preflightFile = "journal/preflight.go"
	extraFile     = "journal/extra.go"
	entriesFile   = "journal/entries.go"

	// The tests that need neither many processes nor much disk.
	quickJournal = "TestEntr|TestEvidence|TestVerify|TestClaim|TestExtra|TestFormat|TestAppend|TestTx|TestOpen|TestPreflight|TestNewestMeta|TestView|TestCreate|TestCutEvidence"
	ringJournal  = "TestRing_Keep|TestRing_KeepBytes|TestRing_Shrinks|TestRing_Pins|TestRing_Evidence|TestRing_EvidenceOfAFormerPin"
)

// journalMutants break what the journal promises about what it was given.
var journalMutants = []mutant{
	{
		Name: "journal-checksum-ignored", Pkg: "journal", Run: quickJournal,
		Edits:  edit(frameFile, "if !bytes.Equal(fmt.Appendf(want[:0], \"%08x \", checksum(key, payload)), value[:checksumSize]) {", "if fmt.Appendf(want[:0], \"%08x \", checksum(key, payload)); !bytes.Equal(value[:1], value[:1]) {"),
		Breaks: "bit rot is read as if it had been written",
	},
	{
		Name: "journal-checksum-without-key", Pkg: "journal", Run: quickJournal,
		Edits:  edit(frameFile, "crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, payload)", "crc32.Update(crc32.Checksum(key[:0], castagnoli), castagnoli, payload)"),
		Breaks: "an entry that ends up under another number is taken for that one",
	},
	{
		Name: "journal-no-chain", Pkg: "journal", Run: quickJournal, Cheap: true,
		Edits:  edit(txFile, "s.head.Seq+1, s.name, s.head.Hash, len(evidence)", "s.head.Seq+1, s.name, \"\", len(evidence)"),
		Breaks: "an entry that was replaced by an older one is not noticed",
	},
	{
		Name: "journal-chain-not-verified", Pkg: "journal", Run: quickJournal,
		Edits:  edit(verifyFile, "seq == a.last+1 && a.hash != \"\" && e.Prev != a.hash:", "seq == a.last+1 && a.hash == \"\" && e.Prev != a.hash:"),
		Breaks: "journal verify finds nothing where entries were exchanged",
	},
	{
		Name: "journal-head-not-verified", Pkg: "journal", Run: quickJournal,
		Edits:  edit(verifyFile, "case a.hash != head.Hash:", "case a.hash != head.Hash && head.Hash == \"\":"),
		Breaks: "journal verify finds nothing where the last entry was exchanged",
	},
	{
		Name: "journal-gap-not-told", Pkg: "journal", Run: quickJournal,
		Edits:  edit(entriesFile, "\t\tif seq > s.due {\n", "\t\tif seq > s.due && s.due == 0 {\n"),
		Breaks: "history hides that entries are missing",
	},
	{
		Name: "journal-error-commits", Pkg: "journal", Run: quickJournal,
		Edits:  edit(journalFile, "if err := fn(t); err != nil || h.fault != nil {", "if err := fn(t); h.fault != nil {"),
		Breaks: "what fsm has vetoed is written all the same",
	},
	{
		Name: "journal-failed-commit-is-not-written", Pkg: "journal", Run: quickJournal,
		Edits:  edit(journalFile, "return j.settle(t, failed.error)", "return failure(opAppend, t.h.path, failed.error)"),
		Breaks: "a phase is told that its entry is lost, and the entry is there",
	},
	{
		Name: "journal-failed-commit-is-written", Pkg: "journal", Run: quickJournal, Cheap: true,
		Edits:  edit(journalFile, "if err == nil && !landed {", "if err == nil && landed && t == nil {"),
		Breaks: "a phase is told that its entry is on disk, and it is not",
	},
	{
		Name: "journal-unconfirmed", Pkg: "journal", Run: "TestAppend|TestFlushFails",
		Edits:  edit(journalFile, "\t\terr = j.confirm(ctx)\n", "\t\terr = nil\n"),
		Breaks: "an entry that was only ever in memory counts as durable",
	},
	{
		Name: "journal-no-sync", Pkg: "journal", Run: "TestFlushes",
		Edits:  edit(openFile, "NoStatistics: true,", "NoStatistics: true,\n\t\t\tNoSync:       true,"),
		Breaks: "a power cut takes entries back that were answered for",
	},
	{
		Name: "journal-truncation-kills", Pkg: "journal", Run: quickJournal,
		Edits:  edit(preflightFile, "case m.pages > uint64(size)/pageSize:", "case m.pages > uint64(size):"),
		Breaks: "a truncated journal ends every hook with SIGBUS",
	},
	{
		Name: "journal-empty-file-is-new", Pkg: "journal", Run: quickJournal,
		Edits:  edit(preflightFile, "return corrupt(opRead, path, errors.New(\"the file is empty; a journal never is\"))", "return nil"),
		Breaks: "a journal that lost its content begins anew without a word",
	},
	{
		Name: "journal-older-meta-wins", Pkg: "journal", Run: quickJournal,
		Edits:  edit(preflightFile, "b.txid > a.txid", "b.txid < a.txid"),
		Breaks: "the check looks at a state of the file that is not the one that is used",
	},
	{
		Name: "journal-fault-kills", Pkg: "journal", Run: quickJournal,
		Edits:  edit(openFile, "\tdefer debug.SetPanicOnFault(debug.SetPanicOnFault(true))\n", "\tdefer debug.SetPanicOnFault(debug.SetPanicOnFault(false))\n"),
		Breaks: "a file that is truncated while it is open ends the hook with SIGBUS",
	},
	{
		Name: "journal-panic-kills", Pkg: "journal", Run: quickJournal,
		Edits:  edit(openFile, "if p := recover(); p != nil {", "if p := any(nil); p != nil {"),
		Breaks: "a damaged page ends the hook with a panic",
	},
	{
		Name: "journal-symlink-followed", Pkg: "journal", Run: quickJournal,
		Edits:  edit(openFile, "flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK", "flag|syscall.O_NONBLOCK"),
		Breaks: "the journal is written to wherever somebody's link leads",
	},
	{
		Name: "journal-replaced-file", Pkg: "journal", Run: quickJournal,
		Edits:  edit(openFile, "if err == nil && os.SameFile(mine, there) {", "if err == nil && mine != nil && there != nil {"),
		Breaks: "two processes write to two journals and each sees its own",
	},
	{
		Name: "journal-newer-format-touched", Pkg: "journal", Run: quickJournal,
		Edits:  edit(openFile, "case format.Format > formatVersion:", "case format.Format > formatVersion+1000:"),
		Breaks: "after a downgrade an old binary writes into a new journal",
	},
	{
		Name: "journal-others-may-write", Pkg: "journal", Run: quickJournal,
		Edits:  edit(createFile, "case info.Mode().Perm()&0o022 != 0:", "case info.Mode().Perm()&0o002 != 0:"),
		Breaks: "a group that may write to the directory can replace the journal",
	},
	{
		Name: "journal-hard-link", Pkg: "journal", Run: quickJournal,
		Edits:  edit(createFile, "case ok && stat.Nlink != 1:", "case ok && stat.Nlink == 0:"),
		Breaks: "the journal is also somebody else's file",
	},
	{
		Name: "journal-half-made", Pkg: "journal", Run: "TestCreate",
		Edits:  edit(createFile, "\ttemp := j.path + \".new\"\n", "\ttemp := j.path\n"),
		Breaks: "a full disk at the first start leaves half a journal",
	},
	{
		Name: "journal-directory-not-synced", Pkg: "journal", Run: "TestCreate",
		Edits:  edit(createFile, "\treturn syncDir(j.dir)\n", "\treturn nil\n"),
		Breaks: "after a power cut right behind the first start there is no journal",
	},
	{
		Name: "journal-unknown-members-dropped", Pkg: "journal", Run: quickJournal,
		Edits:  edit(extraFile, "if err != nil || len(extra) == 0 {\n\t\treturn data, err", "if err != nil || len(extra) >= 0 {\n\t\treturn data, err"),
		Breaks: "an old binary loses what a newer one recorded",
	},
	{
		Name: "journal-ring-off-by-one", Pkg: "journal", Run: ringJournal,
		Edits:  edit(ringFile, "count == 1 || count <= uint64(o.Keep)", "count == 1 || count < uint64(o.Keep)"),
		Breaks: "one entry fewer is kept than was asked for",
	},
	{
		Name: "journal-ring-never-trims", Pkg: "journal", Run: ringJournal,
		Edits:  edit(ringFile, "count <= uint64(o.Keep) && ring.Bytes <= o.KeepBytes {", "count <= uint64(o.Keep) || ring.Bytes <= o.KeepBytes {"),
		Breaks: "the journal grows until the disk is full",
	},
	{
		Name: "journal-pin-dropped", Pkg: "journal", Run: ringJournal, Cheap: true,
		Edits:  edit(ringFile, "\tif s.head.pins(seq) {\n\t\treturn nil\n\t}\n\treturn s.entries.Delete(entryKey(seq))\n}\n\n// retireEvidence", "\treturn s.entries.Delete(entryKey(seq))\n}\n\n// retireEvidence"),
		Breaks: "the first failure of a streak is gone when it is looked for",
	},
	{
		Name: "journal-pinned-evidence-dropped", Pkg: "journal", Run: ringJournal,
		Edits:  edit(ringFile, "\tif !s.head.pins(seq) {\n\t\tif err := deleteChunks", "\tif seq != 0 {\n\t\tif err := deleteChunks"),
		Breaks: "the first failure of a streak has lost its evidence",
	},
	{
		Name: "journal-evidence-off-by-one", Pkg: "journal", Run: ringJournal,
		Edits:  edit(ringFile, "for ring.Captures > maxCaptures {", "for ring.Captures >= maxCaptures {"),
		Breaks: "one capture fewer is kept than promised",
	},
	{
		Name: "journal-former-pins-stay", Pkg: "journal", Run: ringJournal,
		Edits:  edit(ringFile, "\tif seq < ring.Oldest {\n\t\treturn s.entries.Delete", "\tif seq < ring.Oldest && seq == 0 {\n\t\treturn s.entries.Delete"),
		Breaks: "every streak of failures leaves an entry behind for ever",
	},
	{
		Name: "journal-head-is-the-callers", Pkg: "journal", Run: quickJournal,
		Edits:  edit(txFile, "\thead.Seq, head.Hash, head.Ring = s.head.Seq, s.head.Hash, s.head.Ring\n", ""),
		Breaks: "a phase that sets its head back makes entries overwrite each other",
	},
	{
		Name: "journal-note-moves-the-state", Pkg: "journal", Run: quickJournal,
		Edits:  edit(txFile, "if e.To != \"\" {", "if e.Kind != \"\" {"),
		Breaks: "a note changes the state of the slot",
	},
}

const lockFile = "journal/filelock/filelock.go"

// filelockMutants break the locks between processes.
var filelockMutants = []mutant{
	{
		Name: "lock-shared-by-all", Pkg: "journal/filelock",
		Edits:  edit(lockFile, "request{open: openExclusive, how: syscall.LOCK_EX, wait: true, holder: &h}", "request{open: openExclusive, how: syscall.LOCK_SH, wait: true, holder: &h}"),
		Breaks: "two stacks run: both slots hold the host's lock",
	},
	{
		Name: "lock-try-waits", Pkg: "journal/filelock",
		Edits:  edit(lockFile, "request{open: openExclusive, how: syscall.LOCK_EX, holder: &h}", "request{open: openExclusive, how: syscall.LOCK_EX, wait: true, holder: &h}"),
		Breaks: "a second reconcile hangs behind the first instead of saying so",
	},
	{
		Name: "lock-on-a-deleted-file", Pkg: "journal/filelock",
		Edits:  edit(lockFile, "return err == nil && os.SameFile(mine, there)", "return err == nil || there == nil || os.SameFile(mine, there)"),
		Breaks: "two stacks run: one slot holds the lock of a file that was replaced",
	},
	{
		Name: "lock-kept-by-who-gave-up", Pkg: "journal/filelock", Cheap: true,
		Edits:  edit(lockFile, "\t\tcase <-gone:\n\t\t\t_ = flock(f, syscall.LOCK_UN)\n\t\t\t_ = f.Close()\n", "\t\tcase <-gone:\n"),
		Breaks: "a phase that gave up waiting gets the lock later and keeps it until its process ends",
	},
	{
		Name: "lock-waits-beyond-its-time", Pkg: "journal/filelock",
		Edits:  edit(lockFile, "case <-ctx.Done():\n\t\tdefer close(gone)", "case <-context.WithoutCancel(ctx).Done():\n\t\tdefer close(gone)"),
		Breaks: "a hook hangs behind a lock until systemd kills it",
	},
	{
		Name: "lock-inherited", Pkg: "journal/filelock",
		Edits:  edit(lockFile, "unlockErr := flock(l.file, syscall.LOCK_UN)", "unlockErr := error(nil)"),
		Breaks: "a child that is just being started keeps the lock",
	},
	{
		Name: "lock-follows-links", Pkg: "journal/filelock",
		Edits:  edit(lockFile, "f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW, 0)", "f, err := os.OpenFile(path, os.O_RDWR, 0)"),
		Breaks: "whoever may write to /run/lock makes root overwrite any file",
	},
	{
		Name: "lock-of-a-stranger", Pkg: "journal/filelock",
		Edits:  edit(lockFile, "case stat.Nlink > 1:", "case stat.Nlink > 1000:"),
		Breaks: "the name of the holder is written into somebody else's file",
	},
	{
		Name: "lock-without-a-holder", Pkg: "journal/filelock",
		Edits:  edit(lockFile, "\t\tif r.holder != nil {\n", "\t\tif r.holder != nil && !r.wait {\n"),
		Breaks: "nobody can say who keeps everybody waiting",
	},
	{
		Name: "lock-blames-the-dead", Pkg: "journal/filelock",
		Edits:  edit(lockFile, "\t\t\t_, _ = l.file.WriteAt(padded(nil), 0)\n", ""),
		Breaks: "a lock names a process that gave it back long ago",
	},
}
