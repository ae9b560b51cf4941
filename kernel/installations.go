package kernel

import (
	"context"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/inspect"
	"pintle.dev/pintle/kernel/plugin"
	"pintle.dev/pintle/kernel/plugin/operate"
)

// refused is the answer to who installs what cannot be used.
func refused(err error) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: err.Error(),
	}}
}

// started reports whether the plugin host runs.
func (k *Kernel) started() error {
	select {
	case <-k.host.Ready():
		return nil
	default:
		return inspect.Unavailable("the plugins are starting; try again")
	}
}

// tryInstallation starts a bundle of the catalog as it would be loaded if the lock
// named it, beside what is in force. Nothing is changed.
func (k *Kernel) tryInstallation(ctx context.Context, i *operate.Installation) (any, error) {
	if err := k.started(); err != nil {
		return nil, err
	}
	dir, err := k.catalog.Place(i.Bundle, i.Digest)
	if err != nil {
		return nil, refused(err)
	}
	cfg := k.hostConfig(k.config())
	at := slices.IndexFunc(cfg.Bundles, func(b plugin.BundleConfig) bool { return b.Name == i.Bundle })
	if at < 0 {
		at = len(cfg.Bundles)
		cfg.Bundles = append(cfg.Bundles, plugin.BundleConfig{Name: i.Bundle, Installed: true})
	}
	cfg.Bundles[at].Directory, cfg.Bundles[at].Placed = dir, true
	if err := k.host.Try(ctx, cfg, i.Bundle); err != nil {
		return nil, refused(err)
	}
	return operate.Outcome{Done: true}, nil
}

// loadInstallation loads what the lock names, and says whether a bundle of it is used
// as it is installed.
func (k *Kernel) loadInstallation(_ context.Context, i *operate.Installation) (any, error) {
	if err := k.started(); err != nil {
		return nil, err
	}
	if err := k.relock(); err != nil {
		return nil, refused(err)
	}
	if err := k.host.Fault(i.Bundle); err != nil {
		return nil, refused(err)
	}
	return operate.Outcome{Done: true}, nil
}
