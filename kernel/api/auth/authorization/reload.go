package authorization

import (
	"bytes"
	"context"
	"time"

	"k8s.io/apiserver/pkg/server/options/authorizationconfig/metrics"
	"k8s.io/apiserver/pkg/util/filesystem"
)

// lookEvery is how often the file is read where no change of it was seen.
const lookEvery = time.Minute

// Follow takes up changes of the file until ctx ends.
func (c *Chain) Follow(ctx context.Context) {
	if c.o.File == "" {
		return
	}
	metrics.RegisterMetrics()
	metrics.RecordAuthorizationConfigLastConfigInfo(c.o.ServerID, string(c.read))
	filesystem.WatchUntil(ctx, lookEvery, c.o.File, c.look, func(err error) {
		c.o.Logger.Warn("the authorization configuration cannot be watched; it is read each minute", "file", c.o.File, "error", err)
	})
}

// look reads the file, and puts it in force where it changed.
func (c *Chain) look() {
	failed := func(err error) {
		c.o.Logger.Error("the authorization configuration was changed and cannot be used; the one before stays in force", "error", err)
		metrics.RecordAuthorizationConfigAutomaticReloadFailure(c.o.ServerID)
	}
	data, err := readFile(c.o.File)
	if err != nil {
		failed(err)
		return
	}
	if bytes.Equal(data, c.read) {
		return
	}
	changed, err := c.change(data)
	if err != nil {
		failed(fileError(c.o.File, err))
		return
	}
	if changed {
		c.o.Logger.Info("the authorization configuration was changed and is in force", "file", c.o.File)
		metrics.RecordAuthorizationConfigAutomaticReloadSuccess(c.o.ServerID, string(data))
	}
}
