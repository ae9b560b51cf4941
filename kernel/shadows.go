package kernel

import (
	"fmt"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/inspect"
	"pintle.dev/pintle/kernel/scheduler"
	"pintle.dev/pintle/kernel/shadow"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// startShadows runs the candidates that Plugin objects name.
func (k *Kernel) startShadows() error {
	plugins, err := k.api.Source(v1alpha1.SchemeGroupVersion.WithResource("plugins"), nil)
	if err != nil {
		return err
	}
	m, err := shadow.New(shadow.Config{
		Host: k.host, Plugins: plugins, Log: k.log.With("part", "shadows"),
	})
	if err != nil {
		return err
	}
	k.host.SetShadows(func(bundle string) *v1alpha1.PluginShadowStatus {
		r, ok := m.Diff(bundle, 0)
		if !ok {
			return nil
		}
		since := metav1.NewTime(r.Since.Truncate(1e9))
		return &v1alpha1.PluginShadowStatus{
			Version: r.Candidate.Version, Digest: r.Candidate.Digest, State: r.State, Message: r.Message,
			Since: &since, Decisions: r.Compared, Disagreements: r.Disagreed,
		}
	})
	k.shadows.Store(m)
	m.Follow(followed(k.scheduling.Load()))
	k.parts.Start("shadows", m.Run, nil)
	return nil
}

// schedules notes which scheduler runs in this kernel; nil: none.
func (k *Kernel) schedules(s *scheduler.Scheduler) {
	k.scheduling.Store(s)
	k.setProfiles() // the configuration may have changed since s was made
	if m := k.shadows.Load(); m != nil {
		m.Follow(followed(s))
	}
}

// followed is a scheduler as shadows know it; nil stays nil.
func followed(s *scheduler.Scheduler) shadow.Scheduler {
	if s == nil {
		return nil
	}
	return s
}

// diff answers for a plugin or a bundle.
func (k *Kernel) diff(req *http.Request) (any, error) {
	name := req.PathValue("name")
	var after uint64
	if text := req.FormValue("after"); text != "" {
		var err error
		if after, err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("after: %q is not a sequence number", text))
		}
	}
	bundle := ""
	for _, p := range k.host.Plugins() {
		if p.Name == name || p.Status.Bundle == name {
			bundle = p.Status.Bundle
			break
		}
	}
	if bundle == "" {
		return nil, inspect.NotFound(v1alpha1.SchemeGroupVersion.Group, "plugins", name)
	}
	m := k.shadows.Load()
	if m == nil {
		return nil, errNoScheduler
	}
	r, ok := m.Diff(bundle, after)
	if !ok {
		return nil, apierrors.NewConflict(v1alpha1.SchemeGroupVersion.WithResource("plugins").GroupResource(), name,
			fmt.Errorf("its bundle %s has no candidate: pintle plugin shadow %s names one", bundle, name))
	}
	return r, nil
}
