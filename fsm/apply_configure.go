package fsm

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/axd-project/axd/job"
)

func (a *apply) configure(c *Configure) Result {
	if c.FeatureLevel > FeatureLevel {
		a.unsupported = fmt.Errorf("the cluster is raised to feature level %d, this axd knows up to %d: use a newer axd",
			c.FeatureLevel, FeatureLevel)
		return Result{}
	}
	if c.ClusterID != "" {
		if err := job.ValidateName("cluster_id", c.ClusterID); err != nil {
			return rejected(err)
		}
		if a.meta.ClusterID != "" && a.meta.ClusterID != c.ClusterID {
			return rejected(job.Conflict("cluster_id", "is set once, to "+strconv.Quote(a.meta.ClusterID), c.ClusterID))
		}
	}
	if c.Settings != nil {
		if err := c.Settings.Validate(); err != nil {
			return rejected(err)
		}
		if err := a.settings.Merge(*c.Settings).Validate(); err != nil {
			return rejected(err)
		}
	}
	before, set := a.meta, c.Settings != nil && a.putSettings(*c.Settings)
	if c.ClusterID != "" {
		a.meta.ClusterID = c.ClusterID
	}
	a.meta.FeatureLevel = max(a.meta.FeatureLevel, c.FeatureLevel)
	return Result{Changed: a.meta != before || set}
}

// putSettings tells whether that changed something.
func (a *apply) putSettings(over job.Settings) bool {
	was := bytes.Clone(mustEncode(a.codec, &a.settings))
	is := a.settings.Merge(over)
	row := mustEncode(a.codec, &is)
	if bytes.Equal(was, row) {
		return false
	}
	a.settings = is
	a.set(metaKey(metaSet), row)
	a.event(Event{Kind: EventSettings})
	return true
}

// ReadSettings returns what operators have set for the cluster.
func ReadSettings(r Reader) job.Settings {
	s, _ := getRow[job.Settings](r, metaKey(metaSet))
	return s
}
