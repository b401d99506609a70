import * as Ariakit from '@ariakit/react';
import { Button } from './Button';
import styles from './Menu.module.css';

export interface MenuAction {
  label: string;
  onSelect: () => void;
}

/** A button that opens a menu of what can be done. */
export function ActionMenu({ label, actions }: { label: string; actions: MenuAction[] }) {
  return (
    <Ariakit.MenuProvider placement="bottom-end">
      <Ariakit.MenuButton render={<Button small aria-label={label} />}>⋯</Ariakit.MenuButton>
      <Ariakit.Menu gutter={4} portal={false} fixed unmountOnHide className={styles.menu}>
        {actions.map((action) => (
          <Ariakit.MenuItem key={action.label} className={styles.item} onClick={action.onSelect}>
            {action.label}
          </Ariakit.MenuItem>
        ))}
      </Ariakit.Menu>
    </Ariakit.MenuProvider>
  );
}
