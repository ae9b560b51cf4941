package config

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Size is an amount of bytes, written as a Kubernetes quantity (64Mi, 1G).
type Size int64

// ParseSize reads a quantity of bytes.
func ParseSize(s string) (Size, error) {
	q, err := resource.ParseQuantity(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not an amount of bytes such as 64Mi", s)
	}
	return Size(q.Value()), nil
}

// String writes the size in the shortest binary unit.
func (s Size) String() string { return resource.NewQuantity(int64(s), resource.BinarySI).String() }
