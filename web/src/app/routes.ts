import { lazy, type ComponentType, type LazyExoticComponent } from 'react';

export interface Route {
  /** First part of the address: "#/deploy". */
  page: string;
  title: string;
  /** Whether the navigation has it. */
  inNavigation: boolean;
  Page: LazyExoticComponent<ComponentType>;
}

/** Every page: each is a file of its own that is loaded when it is first wanted. The first one is the start page. */
export const routes: [Route, ...Route[]] = [
  { page: 'memory', title: 'Memory', inNavigation: true, Page: lazy(() => import('../pages/memory/MemoryPage')) },
  { page: 'deploy', title: 'Deploy', inNavigation: true, Page: lazy(() => import('../pages/deploy/DeployPage')) },
  { page: 'plans', title: 'Does not fit', inNavigation: false, Page: lazy(() => import('../pages/plans/PlansPage')) },
  {
    page: 'calibration',
    title: 'Calibration',
    inNavigation: true,
    Page: lazy(() => import('../pages/calibration/CalibrationPage')),
  },
  {
    page: 'processes',
    title: 'Processes',
    inNavigation: true,
    Page: lazy(() => import('../pages/processes/ProcessesPage')),
  },
  { page: 'events', title: 'Events', inNavigation: true, Page: lazy(() => import('../pages/events/EventsPage')) },
  {
    page: 'settings',
    title: 'Settings',
    inNavigation: true,
    Page: lazy(() => import('../pages/settings/SettingsPage')),
  },
];

/** The route of a page's name; null when there is none. */
export function routeOf(page: string): Route | null {
  return page === '' ? routes[0] : (routes.find((route) => route.page === page) ?? null);
}
