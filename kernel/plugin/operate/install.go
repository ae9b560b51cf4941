package operate

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/inspect"
)

// Installation is a bundle of a running kernel's catalog: what the kernel is asked
// about while a command installs it.
type Installation struct {
	Bundle string `json:"bundle"`
	// Digest is that of the bundle's manifest.
	Digest string `json:"digest"`
}

// Outcome is that a kernel did what it was asked for.
type Outcome struct {
	Done bool `json:"done"`
}

// Try has a running kernel start a bundle that the lock does not name yet, beside
// what is in force, and end it. A refusal is a *RefusedError.
func Try(ctx context.Context, c *inspect.Client, i Installation) error {
	return installation(ctx, c, i, "try")
}

// Load has a running kernel load what the lock names, and waits for it.
func Load(ctx context.Context, c *inspect.Client, i Installation) error {
	return installation(ctx, c, i, "load")
}

func installation(ctx context.Context, c *inspect.Client, i Installation, what string) error {
	for {
		err := c.Post(ctx, i, &Outcome{}, "installations", what)
		var status apierrors.APIStatus
		switch {
		case err == nil:
			return nil
		case apierrors.IsInvalid(err):
			return &RefusedError{Plugin: i.Bundle, Reason: string(metav1.StatusReasonInvalid), Message: err.Error()}
		case errors.As(err, &status) && !apierrors.IsTooManyRequests(err) && !apierrors.IsServiceUnavailable(err):
			return err
		}
		// The kernel starts, or is busy.
		select {
		case <-ctx.Done():
			return errors.Join(ErrTimedOut, err)
		case <-time.After(5 * pollEvery):
		}
	}
}
