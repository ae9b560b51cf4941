package legacytokens

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"pintle.dev/pintle/sdk/controller"
)

func on(days int) string { return time.Now().UTC().AddDate(0, 0, days).Format(time.DateOnly) }

func tracking(since string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: trackingConfigMap}, Data: map[string]string{"since": since}}
}

func account(secrets ...string) *corev1.ServiceAccount {
	a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "1"}}
	for _, s := range secrets {
		a.Secrets = append(a.Secrets, corev1.ObjectReference{Name: s})
	}
	return a
}

// secret of account a, made 400 days ago; edit changes it.
func secret(labels map[string]string, edit ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "n", Name: "s", UID: "2", ResourceVersion: "7", Labels: labels, CreationTimestamp: metav1.NewTime(time.Now().AddDate(0, 0, -400)),
			Annotations: map[string]string{corev1.ServiceAccountNameKey: "a", corev1.ServiceAccountUIDKey: "1"},
		},
		Type: corev1.SecretTypeServiceAccountToken,
	}
	for _, e := range edit {
		e(s)
	}
	return s
}

func pod(spec corev1.PodSpec) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p"}, Spec: spec}
}

// TestLook: which Secrets are left alone, labelled and deleted.
func TestLook(t *testing.T) {
	const kept, labelled, deleted = "kept", "labelled", "deleted"
	for name, tc := range map[string]struct {
		since   int // days, of the tracking
		account *corev1.ServiceAccount
		labels  func() map[string]string
		edit    func(*corev1.Secret)
		pod     *corev1.Pod
		want    string
	}{
		"never used":                    {since: -400, want: labelled},
		"tracked for less":              {since: -365, want: kept},
		"tracked long enough":           {since: -366, want: labelled},
		"made lately":                   {since: -400, edit: func(s *corev1.Secret) { s.CreationTimestamp = metav1.NewTime(time.Now().AddDate(0, 0, -364)) }, want: kept},
		"used lately":                   {since: -400, labels: func() map[string]string { return map[string]string{lastUsedLabel: on(-365)} }, want: kept},
		"used long ago":                 {since: -400, labels: func() map[string]string { return map[string]string{lastUsedLabel: on(-366)} }, want: labelled},
		"used on a day that is none":    {since: -400, labels: func() map[string]string { return map[string]string{lastUsedLabel: "2021-02-29"} }, want: kept},
		"invalid for less":              {since: -800, labels: func() map[string]string { return map[string]string{invalidSinceLabel: on(-365)} }, want: kept},
		"invalid long enough":           {since: -800, labels: func() map[string]string { return map[string]string{invalidSinceLabel: on(-366)} }, want: deleted},
		"invalid, and used since":       {since: -800, labels: func() map[string]string { return map[string]string{invalidSinceLabel: on(-366), lastUsedLabel: on(-1)} }, want: kept},
		"invalid since no day":          {since: -800, labels: func() map[string]string { return map[string]string{invalidSinceLabel: "always"} }, want: labelled},
		"not in the account's list":     {since: -400, account: account("other"), want: kept},
		"of another account's UID":      {since: -400, edit: func(s *corev1.Secret) { s.Annotations[corev1.ServiceAccountUIDKey] = "9" }, want: kept},
		"without a UID":                 {since: -400, edit: func(s *corev1.Secret) { delete(s.Annotations, corev1.ServiceAccountUIDKey) }, want: labelled},
		"of no account":                 {since: -400, edit: func(s *corev1.Secret) { s.Annotations = nil }, want: kept},
		"of an account that is gone":    {since: -400, edit: func(s *corev1.Secret) { s.Annotations[corev1.ServiceAccountNameKey] = "b" }, want: kept},
		"of another type":               {since: -400, edit: func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }, want: kept},
		"in a volume of a pod":          {since: -400, pod: pod(corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}}}}), want: kept},
		"in a variable of a pod":        {since: -400, pod: pod(corev1.PodSpec{InitContainers: []corev1.Container{{Env: []corev1.EnvVar{{ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}}}}}), want: kept},
		"in the pull secrets of a pod":  {since: -400, pod: pod(corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "s"}}}), want: kept},
		"another one is used by a pod":  {since: -400, pod: pod(corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "s2"}}}), want: labelled},
		"projected into a pod's volume": {since: -400, pod: pod(corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}}}}}}), want: kept},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if tc.account == nil {
					tc.account = account("s")
				}
				var labels map[string]string
				if tc.labels != nil {
					labels = tc.labels()
				}
				s := secret(labels)
				if tc.edit != nil {
					tc.edit(s)
				}
				client := fake.NewClientset(tracking(on(tc.since)), tc.account, s)
				if tc.pod != nil {
					if err := client.Tracker().Add(tc.pod); err != nil {
						t.Fatal(err)
					}
				}
				// A fault of one Secret is told, and is no fault of the others.
				_ = (&cleaner{client: client, unused: defaultUnused, log: slog.New(slog.DiscardHandler)}).clean(t.Context())
				got := kept
				now, err := client.CoreV1().Secrets("n").Get(t.Context(), "s", metav1.GetOptions{})
				switch {
				case apierrors.IsNotFound(err):
					got = deleted
				case err != nil:
					t.Fatal(err)
				case now.Labels[invalidSinceLabel] != labels[invalidSinceLabel]:
					if got = labelled; now.Labels[invalidSinceLabel] != on(0) {
						t.Errorf("label is %q, want %q", now.Labels[invalidSinceLabel], on(0))
					}
				}
				if got != tc.want {
					t.Errorf("%s, want %s", got, tc.want)
				}
			})
		})
	}
}

// TestYears: a token is labelled after a year and deleted after another, and not a
// day before.
func TestYears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(tracking(on(0)), account("s"), secret(nil))
		r, err := New(&controller.Context{Client: client, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		begun := time.Now()
		state := func() string {
			synctest.Wait()
			s, err := client.CoreV1().Secrets("n").Get(t.Context(), "s", metav1.GetOptions{})
			if err != nil {
				return "gone"
			}
			return s.Labels[invalidSinceLabel]
		}
		was := ""
		var changes []string
		for range 800 {
			if now := state(); now != was {
				changes = append(changes, fmt.Sprintf("%d", int(time.Since(begun).Hours()/24)))
				was = now
			}
			time.Sleep(24 * time.Hour)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := strings.Join(changes, " "); got != "366 732" || was != "gone" {
			t.Errorf("changed after %s days, and is %q at last; want 366 732, gone", got, was)
		}
	})
}

// TestNoTracking: without a day since which uses are known nothing is touched.
func TestNoTracking(t *testing.T) {
	for name, cm := range map[string]*corev1.ConfigMap{"no ConfigMap": {}, "no date": tracking("soon"), "empty": tracking("")} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(cm, account("s"), secret(map[string]string{invalidSinceLabel: "2001-01-01"}))
			if err := (&cleaner{client: client, unused: time.Hour, log: slog.New(slog.DiscardHandler)}).clean(t.Context()); err == nil {
				t.Error("no error")
			}
			if _, err := client.CoreV1().Secrets("n").Get(t.Context(), "s", metav1.GetOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	for config, want := range map[string]string{
		``: "8760h0m0s", `{}`: "8760h0m0s", `{"cleanUpPeriod": "1h"}`: "1h0m0s",
		`{"cleanUpPeriod": "0s"}`: "not a time above zero", `{"cleanUpPeriod": "-1h"}`: "not a time above zero",
		`{"cleanUpPeriod": "a year"}`: "not a time above zero", `{"period": "1h"}`: "unknown field",
	} {
		d, err := readConfig([]byte(config))
		got := d.String()
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", config, got, want)
		}
	}
}
