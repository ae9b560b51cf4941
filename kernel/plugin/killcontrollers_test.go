package plugin

import (
	"testing"
	"time"

	"pintle.dev/pintle/kernel/plugin/manifest"
)

// Controllers that do not end are killed with their guest, which is started again;
// guests without controllers go on.
func TestKillControllers(t *testing.T) {
	cfg := testConfig(t, manifest.TransportProcess, "FitsCPU")
	cfg.Bundles = append(cfg.Bundles, BundleConfig{Name: "greeter", Transport: manifest.TransportProcess})
	cfg.Admission = []string{"refuse"}
	h := runHost(t, cfg, nil)
	pid := func(name string) int32 { return objectOf(h, name).Status.PID }
	controllers, others := pid("greeter"), pid("FitsCPU")
	if controllers == 0 || others == 0 {
		t.Fatalf("processes %d and %d", controllers, others)
	}
	h.KillControllers()
	for limit := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
		if now := objectOf(h, "refuse").Status; now.PID != controllers && now.PID != 0 && now.State == "Ready" {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("the process of the controllers goes on: %+v", objectOf(h, "refuse").Status)
		}
	}
	if now := pid("FitsCPU"); now != others {
		t.Errorf("the process without controllers is %d, was %d", now, others)
	}
}
