package node

import (
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

type (
	authConfig      = runtimeapi.AuthConfig
	containerConfig = runtimeapi.ContainerConfig
)

func quantity(s string) *resource.Quantity { q := resource.MustParse(s); return &q }
