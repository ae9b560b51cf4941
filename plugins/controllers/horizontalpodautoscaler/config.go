package horizontalpodautoscaler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Gates of Kubernetes that the controller asks for, with their defaults.
const (
	gateScaleToZero = "HPAScaleToZero"
	gateTolerance   = "HPAConfigurableTolerance"
)

// Config has the names and defaults of kube-controller-manager's configuration of this
// controller.
type Config struct {
	// ConcurrentHorizontalPodAutoscalerSyncs is how many autoscalers are worked on at
	// once; 1 to 1000, default 5.
	ConcurrentHorizontalPodAutoscalerSyncs int `json:"concurrentHorizontalPodAutoscalerSyncs"`
	// HorizontalPodAutoscalerSyncPeriod is the time between two looks at an autoscaler;
	// at least 100ms, default 15s.
	HorizontalPodAutoscalerSyncPeriod metav1.Duration `json:"horizontalPodAutoscalerSyncPeriod"`
	// HorizontalPodAutoscalerDownscaleStabilizationWindow is how long a higher
	// recommendation keeps replicas, where the autoscaler does not say; default 5m.
	HorizontalPodAutoscalerDownscaleStabilizationWindow metav1.Duration `json:"horizontalPodAutoscalerDownscaleStabilizationWindow"`
	// HorizontalPodAutoscalerTolerance is the deviation from the target, as a fraction,
	// at which nothing is done; default 0.1.
	HorizontalPodAutoscalerTolerance float64 `json:"horizontalPodAutoscalerTolerance"`
	// HorizontalPodAutoscalerCPUInitializationPeriod is the time after the start of a
	// pod in which its CPU may be left out; default 5m.
	HorizontalPodAutoscalerCPUInitializationPeriod metav1.Duration `json:"horizontalPodAutoscalerCPUInitializationPeriod"`
	// HorizontalPodAutoscalerInitialReadinessDelay is the time after the start of a pod
	// in which a change of its readiness counts as the first; default 30s.
	HorizontalPodAutoscalerInitialReadinessDelay metav1.Duration `json:"horizontalPodAutoscalerInitialReadinessDelay"`
	// FeatureGates are those of kube-controller-manager that concern this controller:
	// HPAScaleToZero (default false) and HPAConfigurableTolerance (default true).
	FeatureGates map[string]bool `json:"featureGates"`
}

func readConfig(data []byte) (Config, error) {
	c := Config{
		ConcurrentHorizontalPodAutoscalerSyncs:              5,
		HorizontalPodAutoscalerSyncPeriod:                   metav1.Duration{Duration: 15 * time.Second},
		HorizontalPodAutoscalerDownscaleStabilizationWindow: metav1.Duration{Duration: 5 * time.Minute},
		HorizontalPodAutoscalerTolerance:                    0.1,
		HorizontalPodAutoscalerCPUInitializationPeriod:      metav1.Duration{Duration: 5 * time.Minute},
		HorizontalPodAutoscalerInitialReadinessDelay:        metav1.Duration{Duration: 30 * time.Second},
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return c, fmt.Errorf("horizontalpodautoscaler configuration: %w; it has the keys of HPAControllerConfiguration, and featureGates", err)
	}
	if err := c.check(); err != nil {
		return c, fmt.Errorf("horizontalpodautoscaler configuration: %w", err)
	}
	gates := map[string]bool{gateScaleToZero: false, gateTolerance: true}
	maps.Copy(gates, c.FeatureGates)
	c.FeatureGates = gates
	return c, nil
}

func (c *Config) check() error {
	if n := c.ConcurrentHorizontalPodAutoscalerSyncs; n < 1 || n > 1000 {
		return fmt.Errorf("concurrentHorizontalPodAutoscalerSyncs: %d is not within 1 and 1000", n)
	}
	if d := c.HorizontalPodAutoscalerSyncPeriod.Duration; d < 100*time.Millisecond {
		return fmt.Errorf("horizontalPodAutoscalerSyncPeriod: %s is less than 100ms", d)
	}
	for name, d := range map[string]time.Duration{
		"horizontalPodAutoscalerDownscaleStabilizationWindow": c.HorizontalPodAutoscalerDownscaleStabilizationWindow.Duration,
		"horizontalPodAutoscalerCPUInitializationPeriod":      c.HorizontalPodAutoscalerCPUInitializationPeriod.Duration,
		"horizontalPodAutoscalerInitialReadinessDelay":        c.HorizontalPodAutoscalerInitialReadinessDelay.Duration,
	} {
		if d < 0 || d > 24*time.Hour {
			return fmt.Errorf("%s: %s is not within 0 and 24h", name, d)
		}
	}
	if t := c.HorizontalPodAutoscalerTolerance; t < 0 || math.IsNaN(t) || math.IsInf(t, 0) {
		return fmt.Errorf("horizontalPodAutoscalerTolerance: %v is negative", t)
	}
	known := []string{gateTolerance, gateScaleToZero}
	for name := range c.FeatureGates {
		if !slices.Contains(known, name) {
			return fmt.Errorf("featureGates: %s is not one of %s", name, strings.Join(known, ", "))
		}
	}
	return nil
}
