package phases_test

import (
	"time"

	"github.com/node-lifecycle/node-lifecycle/journal/filelock"
)

func lockedError(err error) error {
	return &filelock.LockedError{
		Path: "kube1.lock", Err: err, Waited: time.Second,
		Holder: filelock.Holder{PID: 7, Phase: "post-start", Since: time.Now()},
	}
}
