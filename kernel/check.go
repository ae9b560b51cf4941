package kernel

import (
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"pintle.dev/pintle/kernel/api/admission"
	"pintle.dev/pintle/kernel/api/audit"
	"pintle.dev/pintle/kernel/api/auth/authentication"
	"pintle.dev/pintle/kernel/api/auth/authorization"
	"pintle.dev/pintle/kernel/api/enablement"
	"pintle.dev/pintle/kernel/config"
	"pintle.dev/pintle/kernel/plugin"
)

// Check checks what a configuration says of plugins as New does, against the
// bundles of this machine: that they are there and unchanged, that profiles and
// controllers name what they hold, and that plugins' configurations keep to their
// schemas; and it reads the files that say who is let in, who may do what, how
// objects are admitted and what is recorded, and what the API serves. Faults come with lines of the
// configuration where they have one, and so do warnings, which are of what is sound and
// perhaps not meant. It starts nothing and writes nothing. executable is the path of the kernel's binary, beside which
// bundles are looked for.
func Check(cfg *config.Config, executable string) (warnings config.Faults, err error) {
	if err := checkFiles(cfg); err != nil {
		return nil, err
	}
	host, err := pluginsOf(cfg, executable, func(*plugin.Config) {})
	if err != nil {
		return nil, err
	}
	for _, s := range host.Splits() {
		warnings = append(warnings, cfg.FaultAt(placeOf(cfg, &plugin.NameError{Kind: s.Kind, Name: s.Name}), s.String()))
	}
	return warnings, nil
}

// checkFiles reads the files that the API server reads at its start.
func checkFiles(cfg *config.Config) error {
	var faults config.Faults
	check := func(key string, err error) {
		if err == nil {
			return
		}
		text := strings.TrimLeft(strings.TrimPrefix(err.Error(), key), ": ")
		faults = append(faults, cfg.FaultAt(strings.Split(key, "."), strings.Join(strings.Fields(text), " "))) // one line
	}
	ways := waysIn(cfg.Auth)
	check("auth.clientCAFiles", authentication.Check(authentication.Files{ClientCAs: ways.ClientCAs}))
	check("auth.requestHeader", authentication.Check(authentication.Files{FrontProxy: ways.FrontProxy}))
	check("auth.tokenFile", authentication.Check(authentication.Files{Tokens: ways.Tokens}))
	check("auth.tokenWebhook", authentication.Check(authentication.Files{Webhook: ways.Webhook}))
	check("auth.authenticationConfig", authentication.Check(authentication.Files{Config: ways.Config}))
	if file := cfg.Auth.AuthorizationConfig; file != "" {
		check("auth.authorizationConfig", authorization.Check(file))
	}
	if file := cfg.Admission.Config; file != "" {
		check("admission.config", admission.CheckConfig(file))
	}
	if file := cfg.Audit.PolicyFile; file != "" {
		check("audit.policyFile", audit.CheckPolicy(file))
	}
	faults = append(faults, checkRuntimeConfig(cfg)...)
	if len(faults) == 0 {
		return nil
	}
	return faults
}

// checkRuntimeConfig names what is to be served, or not, and is not there.
func checkRuntimeConfig(cfg *config.Config) config.Faults {
	var faults config.Faults
	path := []string{"api", "runtimeConfig"}
	keys, whole := enablement.Check(cfg.API.RuntimeConfig)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		faults = append(faults, cfg.FaultAt(append(slices.Clone(path), key), keys[key].Error()))
	}
	if whole != nil {
		faults = append(faults, cfg.FaultAt(path, whole.Error()))
	}
	return faults
}

// pluginsOf is the plugin host of a configuration as change leaves it, not started.
func pluginsOf(cfg *config.Config, executable string, change func(*plugin.Config)) (*plugin.Host, error) {
	k := &Kernel{exe: executable, dirs: directories{plugins: filepath.Join(cfg.DataDir, "plugins")}, log: slog.New(slog.DiscardHandler)}
	if _, err := k.readCatalog(cfg); err != nil {
		return nil, err
	}
	host := k.hostConfig(cfg)
	host.Users.File = "" // nothing is written
	change(&host)
	h, err := plugin.New(host, plugin.Deps{Bundles: k.catalog})
	if err != nil {
		return nil, located(cfg, err)
	}
	return h, nil
}
