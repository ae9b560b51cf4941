package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// AwaitLoaded waits until the host has made the object of a plugin of a bundle: of that version,
// unless the object names another.
func (c *Client) AwaitLoaded(ctx context.Context, name, bundle, version string) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		o, err := c.Get(ctx, name)
		switch {
		case err == nil && o.Spec.Bundle == bundle && (o.Status.Version == version || o.Spec.Version != "" && o.Spec.Version != version):
			return nil
		case err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil:
			return err
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("%w: the kernel did not load it; its log says why", ErrTimedOut)
			}
			return ctx.Err()
		case <-tick.C:
		}
	}
}
