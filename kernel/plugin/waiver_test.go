package plugin

import (
	"log/slog"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pintle.dev/pintle/kernel/plugin/confinement"
	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/sdk/apis/kernel/v1alpha1"
)

// TestWaiver: a process whose cgroup cannot be made runs where the configuration waives
// that. The log says so, and its Plugin object, by a condition that the list shows.
func TestWaiver(t *testing.T) {
	cfg := testConfig(t, manifest.TransportProcess, "FitsCPU")
	cfg.Cgroup = "/cgroup.procs/none" // below what is no folder
	cfg.RunWithout = []string{string(confinement.Cgroup)}
	log := &logBuffer{}
	h := runHostLogging(t, cfg, nil, slog.New(slog.NewTextHandler(log, nil)))
	const words = "runs without cgroup, which plugins.runWithout waives"
	status := objectOf(h, "FitsCPU").Status
	c := meta.FindStatusCondition(status.Conditions, v1alpha1.PluginConditionConfined)
	if c == nil {
		t.Fatalf("%s %q, conditions %+v", status.State, status.Message, status.Conditions)
	}
	if status.State != v1alpha1.PluginStateReady || !strings.HasSuffix(status.Message, words) || // after why it was started again, if it was
		c.Status != metav1.ConditionFalse || c.Reason != "WithoutCgroup" || c.Message != words {
		t.Errorf("%s %q, condition %+v", status.State, status.Message, c)
	}
	for _, line := range []string{`level=WARN msg="plugin process runs without a wall that plugins.runWithout waives"`, " without=cgroup\n"} {
		if !log.has(line) {
			t.Errorf("the log lacks %s:\n%s", line, &log.text)
		}
	}
	// What the process before lacked is not said of one that has all of it.
	former := []metav1.Condition{*c, {Type: v1alpha1.PluginConditionAccepted, Status: metav1.ConditionTrue}}
	whole := v1alpha1.PluginStatus{}
	keepConditions(&whole, former)
	if len(whole.Conditions) != 1 || whole.Conditions[0].Type != v1alpha1.PluginConditionAccepted {
		t.Errorf("conditions %+v", whole.Conditions)
	}
	keepConditions(&status, former[1:])
	if len(status.Conditions) != 2 || !meta.IsStatusConditionFalse(status.Conditions, v1alpha1.PluginConditionConfined) {
		t.Errorf("conditions %+v", status.Conditions)
	}
}
