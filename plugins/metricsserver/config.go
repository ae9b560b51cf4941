package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// config has the names of metrics-server's flags, and the defaults of its own manifest.
type config struct {
	// MetricResolution is how often nodes are asked; at least 10s, default 15s.
	MetricResolution metav1.Duration `json:"metricResolution"`
	// KubeletRequestTimeout is how long a node may take to answer; less than the
	// resolution, default 10s.
	KubeletRequestTimeout metav1.Duration `json:"kubeletRequestTimeout"`
	// NodeSelector selects the nodes that are asked by labels; default all.
	NodeSelector string `json:"nodeSelector"`

	nodes labels.Selector
}

// least is the shortest resolution, as metrics-server has it.
const least = 10 * time.Second

func readConfig(data []byte) (config, error) {
	c := config{MetricResolution: metav1.Duration{Duration: 15 * time.Second}, KubeletRequestTimeout: metav1.Duration{Duration: 10 * time.Second}}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return c, fmt.Errorf("metrics-server configuration: %w; it has metricResolution, kubeletRequestTimeout and nodeSelector", err)
	}
	if c.MetricResolution.Duration < least {
		return c, fmt.Errorf("metrics-server configuration: metricResolution: %s is less than %s", c.MetricResolution.Duration, least)
	}
	if t := c.KubeletRequestTimeout.Duration; t <= 0 || t > c.MetricResolution.Duration {
		return c, fmt.Errorf("metrics-server configuration: kubeletRequestTimeout: %s is not within 0 and metricResolution, %s", t, c.MetricResolution.Duration)
	}
	var err error
	if c.nodes, err = labels.Parse(c.NodeSelector); err != nil {
		return c, fmt.Errorf("metrics-server configuration: nodeSelector: %w", err)
	}
	return c, nil
}
