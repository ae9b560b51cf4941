package configuration

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"

	"pintle.dev/pintle/kernel/secretfile"
)

// Plugins is what plugins are configured by, by their names.
type Plugins map[string][]byte

// Reader is what upstream's plugins want: nil where there is nothing.
func (p Plugins) Reader(name string) io.Reader {
	if data, ok := p[name]; ok {
		return bytes.NewReader(data)
	}
	return nil
}

var decoder = sync.OnceValue(func() runtime.Decoder {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(apiserver.SchemeGroupVersion)
})

// Read reads a file. Configurable are the names that it may have.
func Read(file string, configurable []string) (Plugins, error) {
	data, err := read(file)
	if err != nil {
		return nil, err
	}
	obj, err := runtime.Decode(decoder(), data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; want an AdmissionConfiguration (apiserver.config.k8s.io/v1)", file, err)
	}
	config, ok := obj.(*apiserver.AdmissionConfiguration)
	if !ok {
		return nil, fmt.Errorf("%s: is of another kind; want an AdmissionConfiguration (apiserver.config.k8s.io/v1)", file)
	}
	out := Plugins{}
	for i, p := range config.Plugins {
		fault := func(format string, args ...any) error {
			return fmt.Errorf("%s: plugins[%d]: %s", file, i, fmt.Sprintf(format, args...))
		}
		switch {
		case !slices.Contains(configurable, p.Name):
			return nil, fault("no plugin %q takes a configuration; those that do are %s", p.Name, strings.Join(configurable, ", "))
		case out[p.Name] != nil:
			return nil, fault("plugin %s is there twice; keep one", p.Name)
		case p.Configuration != nil && p.Path != "":
			return nil, fault("plugin %s has both configuration and path; keep one", p.Name)
		case p.Configuration != nil:
			out[p.Name] = p.Configuration.Raw
		case p.Path != "":
			path := p.Path
			if !filepath.IsAbs(path) {
				path = filepath.Join(filepath.Dir(file), path)
			}
			if out[p.Name], err = read(path); err != nil {
				return nil, fault("plugin %s: %v", p.Name, err)
			}
		default:
			return nil, fault("plugin %s has no configuration; give it configuration or path", p.Name)
		}
	}
	return out, nil
}

func read(file string) ([]byte, error) {
	data, err := secretfile.ReadGuarded(file)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return data, nil
}
