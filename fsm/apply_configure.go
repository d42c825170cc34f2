package fsm

import (
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
	before := a.meta
	if c.ClusterID != "" {
		a.meta.ClusterID = c.ClusterID
	}
	a.meta.FeatureLevel = max(a.meta.FeatureLevel, c.FeatureLevel)
	return Result{Changed: a.meta != before}
}
